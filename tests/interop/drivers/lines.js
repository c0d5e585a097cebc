// The line protocol of the drivers: `id thread verb words...` in, `id ok value`, `id no` or `id err why` out.
const fs = require('fs');
const path = require('path');
const readline = require('readline');

const say = (line) => process.stdout.write(line + '\n');

const plain = (v) => (Array.isArray(v) ? JSON.stringify(v) : String(v));

// verbs: async (thread, verb, words) => null for `no`, everything else is `ok` and the value. One at a time per thread.
function serve(verbs) {
  const tails = new Map();
  const answer = async ([id, thread, verb, ...words]) => {
    try {
      const value = await verbs(thread, verb, words);
      say(value === null || value === undefined ? `${id} no` : `${id} ok ${plain(value)}`);
    } catch (e) {
      say(`${id} err ${String(e && e.message ? e.message : e).replace(/\n/g, ' ')}`);
    }
  };
  readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const parts = line.split(' ');
    tails.set(parts[1], (tails.get(parts[1]) || Promise.resolve()).then(() => answer(parts)));
  }).on('close', () => process.exit(0));
  say('ready');
}

// What stands in its package.json, which not every package lets one require.
function versionOf(name) {
  return JSON.parse(fs.readFileSync(path.join(process.env.NODE_PATH, name, 'package.json'))).version;
}

module.exports = { serve, say, versionOf };
