-- Writes to Redis unless a newer leader has written: a write with an older fencing token is rejected.
--   KEYS  the register (it keeps the highest token seen), then every key that the command uses
--   ARGV  the token, then a Redis command with its arguments; without a command the token is only checked
-- Example for redis-cli, with this text in guard.lua:
--   redis-cli --eval guard.lua '{ledger}/guard' '{ledger}' , "$BELLWETHER_TOKEN" SET '{ledger}' hello
-- An older token fails with ESTALE, a missing one with ENOTOKEN; the command is then not executed. The register must outlive
-- every leadership: set no expiry, use a database without eviction, and keep it in the same database as the guarded keys.
local shown = ARGV[1] or ''
if not string.match(shown, '^[1-9]%d*$') then
    return redis.error_reply('ENOTOKEN ' .. KEYS[1] .. ' is guarded and accepts no write without a token')
end
local highest = redis.call('GET', KEYS[1]) or '0'
-- Tokens are compared as text, because Lua would round 64-bit numbers.
if #shown < #highest or (#shown == #highest and shown < highest) then
    return redis.error_reply('ESTALE ' .. KEYS[1] .. ' has seen token ' .. highest .. ', this is ' .. shown)
end
if shown ~= highest then
    redis.call('SET', KEYS[1], shown)
end
if #ARGV == 1 then
    return redis.status_reply('OK')
end
return redis.call(unpack(ARGV, 2))
