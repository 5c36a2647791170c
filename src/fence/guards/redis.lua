-- Writes to Redis unless a newer leader has written: what shows an older fencing token is rejected.
--   KEYS  the register (it keeps the highest token seen), then every key the command touches
--   ARGV  the token, then a command of Redis with its arguments; without one the token is only checked
-- By redis-cli, with this text in guard.lua:
--   redis-cli --eval guard.lua '{ledger}/guard' '{ledger}' , "$BELLWETHER_TOKEN" SET '{ledger}' hello
-- An older token ends in an error ESTALE, none in ENOTOKEN; the command is then not carried out. The register must outlive
-- every leadership: give it no expiry, keep it in a database that evicts nothing, and beside what it guards.
local shown = ARGV[1] or ''
if not string.match(shown, '^[1-9]%d*$') then
    return redis.error_reply('ENOTOKEN ' .. KEYS[1] .. ' guards: nothing is written without a token')
end
local highest = redis.call('GET', KEYS[1]) or '0'
-- 64-bit numbers as text: Lua would round them.
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
