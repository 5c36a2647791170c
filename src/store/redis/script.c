/* The Lua scripts; see script.h.
 *
 * A script that fails keeps what it has written so far. So a script writes the side record before
 * the lock: a record without its lock reads as an expired lease, which is safe. Publishing comes
 * last and may fail.
 *
 * `n` counts the changes of the side record. A change names the n it was computed from. If the
 * server's n is higher, the script rejects the change ("again"). If the server's n is lower, the
 * server lost data or was unreachable, and the change overwrites its record. Only "take" also
 * rejects a lower n. */
#include "store/redis/script.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

static const char record_script[] =
    "local op, value, ttl, from, to, record, note = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], "
    "ARGV[6], ARGV[7]\n"
    "local lock = redis.call('GET', KEYS[1])\n"
    "local side = redis.call('HMGET', KEYS[2], 'n', 'token', 'lock', 'record', 'note')\n"
    "local n, token, owner = tonumber(side[1] or '0'), side[2] or '0', side[3] or ''\n"
    "local function state(verdict)\n"
    "  local left = lock and redis.call('PTTL', KEYS[1]) or -2\n"
    "  return {verdict, lock or '', left, string.format('%.0f', n), token, owner, side[4] or '', "
    "side[5] or ''}\n"
    "end\n"
    "local function write()\n"
    "  n, owner, side[4], side[5] = tonumber(to), (op == 'note') and owner or value, record, note\n"
    "  redis.call('HSET', KEYS[2], 'n', to, 'token', token, 'lock', owner, 'record', record, "
    "'note', note)\n"
    "end\n"
    /* publishes the state; after a release also the next candidate */
    "local function tell(first, missed)\n"
    "  local told = state('told')\n"
    "  told[9], told[10] = first or '', missed or 0\n"
    "  redis.pcall('PUBLISH', KEYS[2], cjson.encode(told))\n"
    "end\n"
    /* moves an entry "SERIAL UNTIL JSON" to the end of the queue */
    "local function to_the_end(id, entry)\n"
    "  local serial = redis.call('HINCRBY', KEYS[3], '', 1)\n"
    "  redis.call('HSET', KEYS[3], id, (string.gsub(entry, '^%d+', serial)))\n"
    "end\n"
    "local function next_in_line(own, named)\n" /* highest priority first, then longest entered */
    "  local clock, all = redis.call('TIME'), redis.call('HGETALL', KEYS[3])\n"
    "  local now, best, best_rank, best_serial = clock[1] * 1000, '', 0, 0\n"
    "  for i = 1, #all, 2 do\n"
    "    local serial, till, text = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')\n"
    "    if serial and all[i] == own then\n"
    /* our own candidate has led: it goes to the end of the queue */
    "      to_the_end(own, all[i + 1])\n"
    "    elseif serial and tonumber(till) >= now then\n"
    "      local good, entry = pcall(cjson.decode, text)\n"
    "      local rank = good and tonumber(entry.priority) or 0\n"
    "      if all[i] == named then rank = math.huge end\n"
    "      serial = tonumber(serial)\n"
    "      if best == '' or rank > best_rank or (rank == best_rank and serial < best_serial) then\n"
    "        best, best_rank, best_serial = all[i], rank, serial\n"
    "      end\n"
    "    end\n"
    "  end\n"
    "  return best\n"
    "end\n"
    "local function call_next()\n" /* returns the next candidate and its missed turns in a row */
    "  local first = next_in_line(ARGV[9], ARGV[10])\n"
    "  if first == '' then return first end\n"
    "  local past = redis.call('HMGET', KEYS[2], 'next', 'missed')\n"
    "  local missed = first == past[1] and tonumber(past[2]) + 1 or 0\n"
    "  redis.call('HSET', KEYS[2], 'next', first, 'missed', missed)\n"
    "  if missed == 3 then\n" /* REDIS_MISSED_MOST: its last turn for now */
    "    redis.call('HDEL', KEYS[2], 'next', 'missed')\n"
    "    to_the_end(first, redis.call('HGET', KEYS[3], first))\n"
    "  end\n"
    "  return first, missed\n"
    "end\n"
    "local late = n > tonumber(from)\n"
    "if op == 'read' then return state('read') end\n"
    "if op == 'take' then\n" /* one instance: lock, token and record in one step */
    "  if lock == value then return state('done') end\n"
    "  if lock then return state('held') end\n"
    "  if n ~= tonumber(from) then return state('again') end\n" /* also if the server lost data */
    "  local least = math.max(tonumber(token), tonumber(ARGV[8]))\n"
    "  token = string.format('%.0f', least + 1)\n"
    "  write()\n"
    "  redis.call('SET', KEYS[1], value, 'NX', 'PX', ttl)\n"
    "  lock = value\n"
    "elseif op == 'lock' then\n" /* Redlock: only the lock, as any Redlock client does */
    "  if lock and lock ~= value then return state('held') end\n"
    "  redis.call('SET', KEYS[1], value, 'PX', ttl)\n"
    "  lock = value\n"
    "  return state('done')\n"
    "elseif op == 'commit' then\n" /* Redlock: the record, after a majority is locked */
    "  if lock ~= value then return state('held') end\n"
    "  if late then return state('again') end\n"
    "  write()\n"
    "elseif op == 'renew' or op == 'heal' then\n"
    "  if lock ~= value and (lock or op == 'renew' or late) then return state('held') end\n"
    "  if to ~= from and late then return state('again') end\n"
    "  local changed = to ~= from or n < tonumber(from)\n"
    "  if changed then write() end\n"
    "  redis.call('SET', KEYS[1], value, 'PX', ttl)\n"
    "  lock = value\n"
    "  if not changed then return state('done') end\n"
    /* also an expired lease, unless another candidate has acquired it */
    "elseif op == 'release' then\n"
    "  if lock ~= value and (lock or owner ~= value) then return state('held') end\n"
    "  if late then return state('again') end\n"
    "  write()\n"
    "  redis.call('DEL', KEYS[1])\n"
    "  lock = false\n"
    "  local called, first, missed = pcall(call_next)\n"
    "  if called then tell(first, missed) else tell() end\n"
    "  return state('done')\n"
    "elseif op == 'drop' then\n" /* no majority was locked: unlock */
    "  if lock ~= value then return state('done') end\n"
    "  redis.call('DEL', KEYS[1])\n"
    "  lock = false\n"
    "elseif op == 'note' then\n"
    "  if late then return state('again') end\n"
    "  write()\n"
    "end\n"
    "tell()\n"
    "return state('done')\n";

static const char candidates_script[] =
    "local op, id, life, text, owner = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]\n"
    "local clock = redis.call('TIME')\n"
    "local now = clock[1] * 1000 + math.floor(clock[2] / 1000)\n"
    /* returns serial, text and time left; nothing if the entry has expired */
    "local function parts(entry)\n"
    "  local serial, till, rest = string.match(entry or '', '^(%d+) (%d+) (.*)$')\n"
    "  if serial and tonumber(till) >= now then return serial, rest, till - now end\n"
    "end\n"
    "local function living()\n"
    "  local all, found = redis.call('HGETALL', KEYS[1]), {}\n"
    "  for i = 1, #all, 2 do\n"
    "    local serial, rest = parts(all[i + 1])\n"
    "    if serial then\n"
    "      found[#found + 1], found[#found + 2] = serial, rest\n"
    "    elseif all[i] ~= '' then\n"
    "      redis.call('HDEL', KEYS[1], all[i])\n"
    "    end\n"
    "  end\n"
    "  return found\n"
    "end\n"
    "if op == 'list' then return living() end\n"
    "local serial, rest, left = parts(redis.call('HGET', KEYS[1], id))\n"
    "local good, entry = pcall(cjson.decode, rest or '')\n"
    "local other = good and type(entry) == 'table' and entry.owner and entry.owner ~= owner\n"
    /* An entry of another process stays until that process leaves or misses a renewal. A process
     * renews after a third of the lifetime, so an entry with less than half of its lifetime left
     * has missed one: its process was probably restarted under the same id. LEAVE passes lifetime 0
     * and never removes an entry of another process. */
    "if other and left >= life / 2 then return 0 end\n"
    "if op == 'leave' then return redis.call('HDEL', KEYS[1], id) end\n"
    "if not serial then\n"
    "  living()\n"
    /* the empty field name holds the last serial */
    "  serial = redis.call('HINCRBY', KEYS[1], '', 1)\n"
    "end\n"
    "redis.call('HSET', KEYS[1], id, string.format('%s %.0f %s', serial, now + life, text))\n"
    "if redis.call('PTTL', KEYS[1]) < life then redis.call('PEXPIRE', KEYS[1], life) end\n"
    "return 1\n";

static const char names_script[] =
    "local page = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])\n"
    "if page.err then return page end\n"
    "local prefix, found = ARGV[4], {}\n"
    /* a lock of a foreign client; a key that this user may not read is none */
    "local function is_lock(key)\n"
    "  if prefix == '' or string.sub(key, 1, #prefix) ~= prefix then return false end\n"
    "  local kind, left = redis.pcall('TYPE', key), redis.pcall('PTTL', key)\n"
    "  return kind.ok == 'string' and type(left) == 'number' and left > 0\n"
    "end\n"
    "for _, key in ipairs(page[2]) do\n"
    "  if string.match(key, '}/bellwether$') or string.match(key, '}/candidates$') or is_lock(key) "
    "then\n"
    "    found[#found + 1] = key\n"
    "  end\n"
    "end\n"
    "return {page[1], found}\n";

const char *redis_script_text(enum redis_script_name name)
{
    static const char *const texts[] = {[REDIS_SCRIPT_RECORD] = record_script,
                                        [REDIS_SCRIPT_CANDIDATES] = candidates_script,
                                        [REDIS_SCRIPT_NAMES] = names_script};
    return texts[name];
}

void redis_script_digest(enum redis_script_name name, char digest[REDIS_DIGEST_SIZE])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    const char *text = redis_script_text(name);
    digest[0] = '\0';
    if (EVP_Digest(text, strlen(text), bytes, &length, EVP_sha1(), NULL) != 1)
        /* without a digest, every EVALSHA fails with NOSCRIPT, and the store sends EVAL instead */
        return;
    for (unsigned i = 0; i < length && 2 * i + 2 < REDIS_DIGEST_SIZE; i++)
        snprintf(digest + 2 * (size_t)i, 3, "%02x", bytes[i]);
}
