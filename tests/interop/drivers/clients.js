// ioredis and node-redis as clients of rlockd: clients.js ioredis|node-redis PORT
const { serve, say, versionOf } = require('./lines.js');
const { createRequire } = require('module');
const need = createRequire(process.env.NODE_PATH + '/');

const [, , library, port] = process.argv;

async function ioredis() {
  const Redis = need('ioredis');
  const Client = Redis.default || Redis;
  const client = new Client({ host: '127.0.0.1', port: Number(port) });
  return {
    version: () => versionOf('ioredis'),
    send: (w) => client.call(...w),
    patient: async (w) => { // a connection of its own
      const own = client.duplicate();
      try { return await own.call(...w); } finally { own.disconnect(); }
    },
    subscribe: async (channel) => {
      const own = client.duplicate();
      own.on('message', (c, m) => say(`event ${c} ${m}`));
      await own.subscribe(channel);
      say(`subscribed ${channel}`);
      return 1;
    },
  };
}

async function nodeRedis() {
  const { createClient } = need('redis');
  const client = createClient({ socket: { host: '127.0.0.1', port: Number(port) } });
  client.on('error', (e) => process.stderr.write(`${e}\n`));
  await client.connect();
  return {
    version: () => versionOf('redis'),
    send: (w) => client.sendCommand(w),
    patient: async (w) => {
      const own = client.duplicate();
      own.on('error', (e) => process.stderr.write(`${e}\n`));
      await own.connect();
      try { return await own.sendCommand(w); } finally { await own.close(); }
    },
    subscribe: async (channel) => {
      const own = client.duplicate();
      own.on('error', (e) => process.stderr.write(`${e}\n`));
      await own.connect();
      await own.subscribe(channel, (m, c) => say(`event ${c} ${m}`));
      say(`subscribed ${channel}`);
      return 1;
    },
  };
}

(library === 'ioredis' ? ioredis() : nodeRedis()).then((lib) => serve(async (thread, verb, words) => {
  switch (verb) {
    case 'version': return lib.version();
    case 'do': return lib.send(words);
    case 'long': return lib.patient(words);
    case 'subscribe': return lib.subscribe(words[0]);
    default: throw new Error(`no verb ${verb}`);
  }
}), (e) => { process.stderr.write(`${e}\n`); process.exit(1); });
