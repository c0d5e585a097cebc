import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SubscriptionMode;

/**
 * Redisson's locks: `RedissonLocks PORT KIND`, KIND rlock, fair, read, write, permit, fenced or spin. For a PORT of
 * `sentinel:PORT,PORT/NAME` the sentinels at those ports name the server; for `cluster:PORT,PORT` these are nodes of a
 * Redis Cluster. With KIND redlock, PORT,PORT,PORT: a RedissonRedLock of an RLock of each.
 */
public final class RedissonLocks implements Lines.Verbs {
    private final RedissonClient[] all;
    private final RedissonClient redisson;
    private final String kind;
    private final Map<String, String> permits = new ConcurrentHashMap<>();

    private RedissonLocks(RedissonClient[] all, String kind) {
        this.all = all;
        this.redisson = all[0];
        this.kind = kind;
    }

    private static RedissonLocks of(String where, String kind) {
        String[] each = kind.equals("redlock") ? where.split(",") : new String[] {where};
        return new RedissonLocks(Arrays.stream(each).map(RedissonLocks::client).toArray(RedissonClient[]::new), kind);
    }

    private static RedissonClient client(String where) {
        Config config = new Config();
        config.setThreads(16).setNettyThreads(4);
        if (where.startsWith("sentinel:")) {
            useSentinels(config, where.substring("sentinel:".length()));
        } else if (where.startsWith("cluster:")) {
            useCluster(config, where.substring("cluster:".length()));
        } else {
            config.useSingleServer().setAddress("redis://127.0.0.1:" + where)
                  .setConnectionMinimumIdleSize(4).setConnectionPoolSize(24)
                  .setSubscriptionConnectionMinimumIdleSize(1);
        }
        return Redisson.create(config);
    }

    /** Reads go to the master, too: a replica may not have yet what was granted a moment ago. */
    private static void useSentinels(Config config, String where) {
        String[] parts = where.split("/");
        SentinelServersConfig sentinels = config.useSentinelServers().setMasterName(parts[1]);
        for (String port : parts[0].split(",")) {
            sentinels.addSentinelAddress("redis://127.0.0.1:" + port);
        }
        sentinels.setScanInterval(500).setReadMode(ReadMode.MASTER).setSubscriptionMode(SubscriptionMode.MASTER)
                 .setMasterConnectionMinimumIdleSize(4).setMasterConnectionPoolSize(24)
                 .setSlaveConnectionMinimumIdleSize(1).setSubscriptionConnectionMinimumIdleSize(1);
    }

    private static void useCluster(Config config, String where) {
        ClusterServersConfig nodes = config.useClusterServers();
        for (String port : where.split(",")) {
            nodes.addNodeAddress("redis://127.0.0.1:" + port);
        }
        nodes.setScanInterval(500).setReadMode(ReadMode.MASTER).setSubscriptionMode(SubscriptionMode.MASTER)
             .setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(24)
             .setSlaveConnectionMinimumIdleSize(1).setSubscriptionConnectionMinimumIdleSize(1);
    }

    private RLock lock(String kind, String name) {
        switch (kind) {
        case "rlock": return redisson.getLock(name);
        case "fair": return redisson.getFairLock(name);
        case "read": return redisson.getReadWriteLock(name).readLock();
        case "write": return redisson.getReadWriteLock(name).writeLock();
        case "fenced": return redisson.getFencedLock(name);
        case "spin": return redisson.getSpinLock(name);
        case "redlock":
            return new RedissonRedLock(Arrays.stream(all).map(c -> c.getLock(name)).toArray(RLock[]::new));
        default: throw new IllegalArgumentException(kind);
        }
    }

    private Object permitVerb(String thread, String verb, String[] w) throws Exception {
        RPermitExpirableSemaphore s = redisson.getPermitExpirableSemaphore(w[0]);
        String place = thread + " " + w[0];
        switch (verb) {
        case "lock":
            String id = w[1].equals("0") ? s.acquire() : s.acquire(Long.parseLong(w[1]), TimeUnit.MILLISECONDS);
            permits.put(place, id);
            return id;
        case "trylock":
            String maybe = s.tryAcquire(Long.parseLong(w[1]), Long.parseLong(w[2]), TimeUnit.MILLISECONDS);
            if (maybe != null) {
                permits.put(place, maybe);
            }
            return maybe;
        case "unlock":
            s.release(permits.remove(place));
            return 1;
        case "setpermits": return s.trySetPermits(Integer.parseInt(w[1])) ? 1 : null;
        case "available": return s.availablePermits();
        default: throw new IllegalArgumentException(verb);
        }
    }

    private Object acquire(String name, long lease) throws Exception {
        if (kind.equals("fenced")) { // lockAndGetToken(lease) takes the watchdog's lease instead (3.23.5, 4.7.0)
            return lease == 0 ? redisson.getFencedLock(name).lockAndGetToken() : attempt(name, 3600000, lease);
        }
        RLock l = lock(kind, name);
        if (lease == 0) {
            l.lock();
        } else {
            l.lock(lease, TimeUnit.MILLISECONDS);
        }
        return 1;
    }

    private Object attempt(String name, long wait, long lease) throws Exception {
        if (kind.equals("fenced")) {
            return redisson.getFencedLock(name).tryLockAndGetToken(wait, lease, TimeUnit.MILLISECONDS);
        }
        return lock(kind, name).tryLock(wait, lease, TimeUnit.MILLISECONDS) ? 1 : null;
    }

    /** cycle NAME LIST ID N: N times lock, append ID to LIST, unlock. */
    private Object cycle(String[] w) {
        RLock l = lock(kind, w[0]);
        int n = Integer.parseInt(w[3]);
        for (int i = 0; i < n; i++) {
            l.lock();
            redisson.getList(w[1], StringCodec.INSTANCE).add(w[2]);
            l.unlock();
        }
        return n;
    }

    /** rwcycle NAME ENTER_SHA LEAVE_SHA WITNESS N WRITE_EVERY: the witness's scripts run while it is held. */
    private Object rwcycle(String[] w) {
        int n = Integer.parseInt(w[4]);
        int every = Integer.parseInt(w[5]);
        List<Object> keys = Collections.singletonList(w[3]);
        RScript script = redisson.getScript(StringCodec.INSTANCE);
        for (int i = 0; i < n; i++) {
            String mode = i % every == 0 ? "write" : "read";
            RLock l = lock(mode, w[0]);
            l.lock();
            script.evalSha(RScript.Mode.READ_WRITE, w[1], RScript.ReturnType.VALUE, keys, mode);
            script.evalSha(RScript.Mode.READ_WRITE, w[2], RScript.ReturnType.VALUE, keys, mode);
            l.unlock();
        }
        return n;
    }

    @Override
    public Object run(String thread, String verb, String[] w) throws Exception {
        if (verb.equals("version")) {
            return Redisson.class.getPackage().getImplementationVersion();
        }
        if (verb.equals("cycle")) {
            return cycle(w);
        }
        if (verb.equals("rwcycle")) {
            return rwcycle(w);
        }
        if (kind.equals("permit")) {
            return permitVerb(thread, verb, w);
        }
        // `as` lets one driver use the other mode of a read-write lock: as read lock NAME 0
        if (verb.equals("as")) {
            RedissonLocks other = new RedissonLocks(all, w[0]);
            return other.run(thread, w[1], Arrays.copyOfRange(w, 2, w.length));
        }
        RLock l = lock(kind, w[0]);
        switch (verb) {
        case "lock": return acquire(w[0], Long.parseLong(w[1]));
        case "trylock": return attempt(w[0], Long.parseLong(w[1]), Long.parseLong(w[2]));
        case "unlock": l.unlock(); return 1;
        case "holds": return l.getHoldCount();
        case "ttl": return l.remainTimeToLive();
        case "locked": return l.isLocked() ? 1 : 0;
        case "force": return l.forceUnlock() ? 1 : 0;
        default: throw new IllegalArgumentException(verb);
        }
    }

    public static void main(String[] args) throws Exception {
        Lines.serve(of(args[0], args[1]));
    }
}
