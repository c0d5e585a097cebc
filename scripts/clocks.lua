-- clocks.lua -- the tokens of a node of a quorum: 64 token clocks, each for a part of the names.
--
-- The nodes get the attempts of unrelated names in different orders, and in different calls. With one clock each vote
-- would raise the tokens of all names that come after it by its reserve. At each node other names would come after it,
-- so the votes for one name would differ, and no majority would cover a token. scripts/embed puts this file between
-- common.lua and the kind; its token() replaces the one there.
--
--   KEYS[1]:0 to KEYS[1]:63   the clocks; the digest of a name's key decides which one is the name's
--   ARGV[2]                   acquire: the token proposed for all names, or one for each, with spaces between them;
--                             clear: the proposed token; renew: the ceiling to which the clocks are raised, 0 = none
local function clock_of(key)
    return KEYS[1] .. ':' .. tonumber(redis.sha1hex(key):sub(1, 2), 16) % 64
end

-- The value of a clock; 0 if it is no token, because rlockd has not written it.
local function reached(value)
    local clock = tonumber(value) or 0
    return clock >= 0 and clock < 2 ^ 53 and clock or 0
end

local proposal = tonumber(ARGV[2])
local proposals -- if there is one for each name: key -> token
local function proposal_for(key)
    if not proposal and not proposals then
        proposals = {}
        local i = 3
        for word in ARGV[2]:gmatch('%d+') do
            proposals[KEYS[i]], i = tonumber(word), i + 1
        end
    end
    return proposal or proposals[key]
end

-- The next token of the name: the proposed one, or the one above the clock. The clock is set to the end of the token's
-- reserve. So all later tokens of its names are larger. Names of this call that share a clock may get the same token.
-- They are different names: a call grants a name once at most, since no kind that a quorum has is shared.
local before, set = {}, {} -- of the clocks of this call: what they were, and what they are
local function token(key)
    local clock, proposed = clock_of(key), proposal_for(key)
    if not before[clock] then
        local was = pcall('GETSET', clock, text(proposed + reserve))
        before[clock], set[clock] = reached(was), type(was) == 'table' and 0 or proposed + reserve
    end
    local ahead = before[clock] - proposed
    if reserve > 0 and ahead > 1000 and ahead < 1e7 then
        reserve, reserve_denied = 0, true
    end
    local next_token = math.max(proposed, before[clock] + 1)
    if next_token + reserve > set[clock] then -- written now, since a later name may end the script
        set[clock] = next_token + reserve
        pcall('SET', clock, text(set[clock]))
    end
    return next_token
end

-- The names of a wide call that have all but their tokens: key -> owner. See acquire_many() of reentrant.lua.
local taken = {}

-- Raises the name's clock to the ceiling of the call, if there is one. Called only when the verb has found the owner's
-- key.
local raised = {} -- by this call: clock -> true
local function raise_clock(key)
    local clock = proposal > 0 and clock_of(key)
    if clock and not raised[clock] then
        raised[clock] = reached(pcall('GET', clock)) >= proposal or checked(pcall('SET', clock, ARGV[2]))
    end
end
