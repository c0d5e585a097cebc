import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;

/** Spring Integration's RedisLockRegistry: `SpringLocks PORT REGISTRY LEASE_MS pubsub|spin`. A key is REGISTRY:NAME. */
public final class SpringLocks implements Lines.Verbs {
    private final RedisLockRegistry registry;

    private SpringLocks(int port, String key, long lease, String how) {
        LettuceConnectionFactory factory = new LettuceConnectionFactory("127.0.0.1", port);
        factory.afterPropertiesSet();
        factory.start();
        this.registry = new RedisLockRegistry(factory, key, lease);
        this.registry.setRedisLockType(how.equals("pubsub") ? RedisLockRegistry.RedisLockType.PUB_SUB_LOCK
                                                            : RedisLockRegistry.RedisLockType.SPIN_LOCK);
    }

    @Override
    public Object run(String thread, String verb, String[] w) throws Exception {
        if (verb.equals("version")) {
            return RedisLockRegistry.class.getPackage().getImplementationVersion();
        }
        Lock l = registry.obtain(w[0]);
        switch (verb) {
        case "lock":
            l.lock();
            return 1;
        case "trylock": return l.tryLock(Long.parseLong(w[1]), TimeUnit.MILLISECONDS) ? 1 : null;
        case "unlock":
            l.unlock();
            return 1;
        default: throw new IllegalArgumentException(verb);
        }
    }

    public static void main(String[] args) throws Exception {
        Lines.serve(new SpringLocks(Integer.parseInt(args[0]), args[1], Long.parseLong(args[2]), args[3]));
    }
}
