-- The highest fencing token each resource has seen; it only grows.
CREATE TABLE IF NOT EXISTS bellwether_guard (
    resource text PRIMARY KEY,
    token bigint NOT NULL CHECK (token > 0)
);
CREATE OR REPLACE FUNCTION bellwether_guard_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.resource = OLD.resource AND NEW.token >= OLD.token THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'EDENIED: the highest token must not be forgotten';
END $$;
DROP TRIGGER IF EXISTS bellwether_guard_stays ON bellwether_guard;
CREATE TRIGGER bellwether_guard_stays BEFORE UPDATE OR DELETE ON bellwether_guard
    FOR EACH ROW EXECUTE FUNCTION bellwether_guard_stays();
DROP TRIGGER IF EXISTS bellwether_guard_whole ON bellwether_guard;
CREATE TRIGGER bellwether_guard_whole BEFORE TRUNCATE ON bellwether_guard
    FOR EACH STATEMENT EXECUTE FUNCTION bellwether_guard_stays();

-- Call this first in every transaction that writes to a guarded resource:
--   SELECT bellwether_guard('resource', TOKEN);
-- An older token aborts the transaction with an ESTALE message, SQLSTATE BW077; a missing one with ENOTOKEN, BW064.
-- Transactions of one leadership share the row; a transaction of a newer leadership waits until they have ended.
CREATE OR REPLACE FUNCTION bellwether_guard(guarded text, shown bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    highest bigint;
BEGIN
    IF shown IS NULL OR shown <= 0 THEN
        RAISE EXCEPTION 'ENOTOKEN: % was to be written without a token', guarded USING ERRCODE = 'BW064';
    END IF;
    PERFORM 1 FROM bellwether_guard g WHERE g.resource = guarded AND g.token = shown FOR SHARE;
    IF FOUND THEN
        RETURN;
    END IF;
    INSERT INTO bellwether_guard AS g (resource, token) VALUES (guarded, shown)
        ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token WHERE g.token < EXCLUDED.token;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT g.token INTO highest FROM bellwether_guard g WHERE g.resource = guarded FOR SHARE;
    IF highest = shown THEN -- raised meanwhile, by another transaction of this leadership
        RETURN;
    END IF;
    RAISE EXCEPTION 'ESTALE: token % is older than %, the highest seen for %', shown, highest, guarded
        USING ERRCODE = 'BW077';
END $$;
%table

-- Every row of %{table} carries the token of the leadership that wrote it.
CREATE OR REPLACE FUNCTION bellwether_guard_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN -- put the newest token into a row before it is deleted
        PERFORM bellwether_guard(TG_ARGV[0], (to_jsonb(OLD) ->> TG_ARGV[1])::bigint);
        RETURN OLD;
    END IF;
    PERFORM bellwether_guard(TG_ARGV[0], (to_jsonb(NEW) ->> TG_ARGV[1])::bigint);
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS bellwether_guard ON %{table};
CREATE TRIGGER bellwether_guard BEFORE INSERT OR UPDATE OR DELETE ON %{table}
    FOR EACH ROW EXECUTE FUNCTION bellwether_guard_row(%{resource}, %{column-text});
