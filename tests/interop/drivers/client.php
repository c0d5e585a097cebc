<?php
// phpredis as a client of rlockd: client.php PORT. One thread; subscribing is the last thing it does.
function say($line) { fwrite(STDOUT, $line . "\n"); }

$port = (int)$argv[1];
$redis = new Redis();
$redis->connect('127.0.0.1', $port);

function send($redis, $words) {
    $redis->clearLastError();
    $reply = $redis->rawCommand(...$words);
    $error = $redis->getLastError();
    if ($error !== null) {
        throw new Exception($error);
    }
    return $reply === false ? null : $reply;
}

function verbs($redis, $port, $verb, $words) {
    switch ($verb) {
    case 'version': return phpversion('redis');
    case 'do': return send($redis, $words);
    case 'long':
        $own = new Redis();
        $own->connect('127.0.0.1', $port);
        $own->setOption(Redis::OPT_READ_TIMEOUT, 300);
        return send($own, $words);
    }
    throw new Exception("no verb $verb");
}

say('ready');
while (($line = fgets(STDIN)) !== false) {
    $p = explode(' ', rtrim($line, "\n"));
    $words = array_slice($p, 3);
    if ($p[2] === 'subscribe') {
        say("$p[0] ok 1");
        $own = new Redis();
        $own->connect('127.0.0.1', $port);
        $own->setOption(Redis::OPT_READ_TIMEOUT, 300);
        say("subscribed $words[0]"); // the extension says nothing when it is; the runner repeats what is to be seen
        $own->subscribe($words, function ($r, $channel, $message) { say("event $channel $message"); });
    }
    try {
        $value = verbs($redis, $port, $p[2], $words);
        say($value === null ? "$p[0] no" : "$p[0] ok " . (is_scalar($value) ? $value : json_encode($value)));
    } catch (Throwable $e) {
        say("$p[0] err " . str_replace("\n", ' ', $e->getMessage()));
    }
}
