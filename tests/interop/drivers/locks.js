// npm redlock (over ioredis) and node-redis-warlock: locks.js redlock|warlock PORT; redlock also PORT,PORT,PORT
const { serve, versionOf } = require('./lines.js');
const { createRequire } = require('module');
const need = createRequire(process.env.NODE_PATH + '/');

const [, , library, port] = process.argv;
const held = new Map(); // "thread name" -> what the library gave

function redlock() {
  const Redis = need('ioredis');
  const { default: Redlock } = need('redlock');
  const clients = port.split(',').map((p) => new (Redis.default || Redis)({ host: '127.0.0.1', port: Number(p) }));
  clients.forEach((client) => client.on('error', () => {})); // one of several may be away
  const patient = new Redlock(clients, { retryCount: -1, retryDelay: 50, retryJitter: 20 });
  const once = new Redlock(clients, { retryCount: 0 });
  patient.on('error', () => {});
  once.on('error', () => {});
  return {
    version: () => versionOf('redlock'),
    acquire: (name, lease) => patient.acquire([name], lease),
    attempt: async (name, lease) => {
      try {
        return await once.acquire([name], lease);
      } catch (e) {
        if (/unable to achieve a quorum/.test(e.message)) return null;
        throw e;
      }
    },
    release: (lock) => once.release(lock), // the patient one would try for ever to free what it has lost
    extend: async (lock, lease) => once.extend(lock, lease), // ... or to extend it
  };
}

function warlock() {
  const Redis = need('ioredis'); // warlock itself takes any client with callbacks
  const client = new (Redis.default || Redis)({ host: '127.0.0.1', port: Number(port) });
  const lib = need('node-redis-warlock')(client);
  const attempt = (name, lease) => new Promise((done, failed) => {
    lib.lock(name, lease, (err, unlock, id) => (err ? failed(err) : done(unlock ? { unlock, id, name } : null)));
  });
  const optimistic = (name, lease) => new Promise((done, failed) => {
    // it gives no id, so what is locked this way cannot be extended
    lib.optimistic(name, lease, 2000, 30, (err, unlock) => (err ? failed(err) : done({ unlock, name })));
  });
  return {
    version: () => versionOf('node-redis-warlock'),
    acquire: optimistic,
    attempt,
    release: (lock) => new Promise((done, failed) => {
      lock.unlock((err, n) => (err ? failed(err) : n === 1 ? done(1) : failed(new Error(`not held: ${n}`))));
    }),
    extend: (lock, lease) => new Promise((done, failed) => {
      lib.touch(lock.name, lock.id, lease, (err, n) => {
        if (err || n !== 'OK') failed(err || new Error(`not held: ${n}`));
        else done(lock);
      });
    }),
  };
}

const lib = library === 'redlock' ? redlock() : warlock();

serve(async (thread, verb, [name, one, two]) => {
  const place = `${thread} ${name}`;
  switch (verb) {
    case 'version': return lib.version();
    case 'lock': held.set(place, await lib.acquire(name, Number(one) || 30000)); return 1;
    case 'trylock': {
      const end = Date.now() + Number(one);
      for (;;) {
        const got = await lib.attempt(name, Number(two) || 30000);
        if (got) { held.set(place, got); return 1; }
        if (Date.now() >= end) return null;
        await new Promise((r) => setTimeout(r, 50));
      }
    }
    case 'unlock': {
      const lock = held.get(place);
      held.delete(place);
      await lib.release(lock);
      return 1;
    }
    case 'extend': held.set(place, await lib.extend(held.get(place), Number(one))); return 1;
    default: throw new Error(`no verb ${verb}`);
  }
});
