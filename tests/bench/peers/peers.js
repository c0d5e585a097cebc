// Lock libraries of Node: peers.js KIND WHERE own|hot CLIENTS WARM SECONDS; KIND redlock, warlock or rlockd.
// One process, a connection of ioredis per client. Prints what ../peers.py reads; see peers_py.py.
const { createRequire } = require('module');
const need = createRequire(process.env.NODE_PATH + '/');
const Redis = need('ioredis');

const [, , kind, where, mode, clients, warm, seconds] = process.argv;
const connect = () => new (Redis.default || Redis)({ path: where, maxRetriesPerRequest: 0 });

const KINDS = {
  // As it is by default (200 ms and up to 100 between attempts), but that it does not give up.
  redlock(client, name) {
    const { default: Redlock } = need('redlock');
    const lib = new Redlock([client], { retryCount: -1 });
    let held;
    return {
      lock: async () => { held = await lib.acquire([name], 30000); },
      unlock: () => held.release(),
    };
  },
  // Its wait has no default: 10 ms.
  warlock(client, name) {
    const lib = need('node-redis-warlock')(client);
    let held;
    return {
      lock: () => new Promise((done, failed) => {
        lib.optimistic(name, 30000, 1000000, 10, (err, unlock) => {
          held = unlock;
          if (err) failed(err); else done();
        });
      }),
      unlock: () => new Promise((done, failed) => { held((err) => (err ? failed(err) : done())); }),
    };
  },
  rlockd(client, name) {
    return { lock: () => client.call('LOCK', name), unlock: () => client.call('UNLOCK', name) };
  },
};

const now = () => Number(process.hrtime.bigint()) / 1e3; // us
const counts = [], pairs = [], locks = [];
let begin = 0, end = 0;

async function one(number) {
  const client = connect();
  const name = mode === 'hot' ? 'bench/hot' : `bench/own/${String(number).padStart(6, '0')}`;
  const { lock, unlock } = KINDS[kind](client, name);
  await client.ping();
  return { client, run: async () => {
    let at = now();
    counts[number] = 0;
    while (at < end) {
      const asked = at;
      await lock();
      const got = now();
      await unlock();
      at = now();
      if (at >= begin && at < end) {
        counts[number]++;
        pairs.push(at - asked);
      }
      if (got >= begin) locks.push(got - asked);
    }
  } };
}

(async () => {
  const all = await Promise.all(Array.from({ length: Number(clients) }, (_, i) => one(i)));
  begin = now() + Number(warm) * 1e6;
  end = begin + Number(seconds) * 1e6;
  await Promise.all(all.map((c) => c.run()));
  all.forEach((c) => c.client.disconnect());
  process.stdout.write(JSON.stringify({ counts, pair_us: pairs, lock_us: locks }) + '\n', () => process.exit(0));
})().catch((e) => { console.error(e); process.exit(1); });
