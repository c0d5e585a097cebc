import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's locks: Peers KIND HOST:PORT own|hot CLIENTS WARM SECONDS; KIND rlock, fair or rlockd.
 * One JVM with a thread per client, as its users have; rlockd's clients have a socket each. See peers_py.py.
 */
public final class Peers {
    /** A lock as one thread sees it. */
    interface Lock {
        void lock() throws Exception;

        void unlock() throws Exception;
    }

    private final String kind;
    private final String host;
    private final int port;
    private final boolean hot;
    private final RedissonClient redisson;
    private volatile long begin = Long.MAX_VALUE;
    private volatile long end;

    private Peers(String[] a) {
        this.kind = a[0];
        this.host = a[1].split(":")[0];
        this.port = Integer.parseInt(a[1].split(":")[1]);
        this.hot = a[2].equals("hot");
        this.redisson = kind.equals("rlockd") ? null : connect(Integer.parseInt(a[3]));
    }

    /** All as it is by default, but for a connection for each thread that asks. */
    private RedissonClient connect(int clients) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + host + ":" + port)
              .setConnectionPoolSize(Math.max(64, clients));
        return Redisson.create(config);
    }

    private Lock rlockd(String name) throws Exception {
        Socket socket = new Socket(host, port);
        socket.setTcpNoDelay(true);
        OutputStream out = socket.getOutputStream();
        InputStreamReader bytes = new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII);
        BufferedReader in = new BufferedReader(bytes, 256);
        byte[] lock = ("LOCK " + name + "\r\n").getBytes(StandardCharsets.US_ASCII);
        byte[] unlock = ("UNLOCK " + name + "\r\n").getBytes(StandardCharsets.US_ASCII);
        return new Lock() {
            private void ask(byte[] what) throws Exception {
                out.write(what);
                String answer = in.readLine();
                if (answer == null || !answer.startsWith(":")) {
                    throw new IllegalStateException("rlockd: " + answer);
                }
            }

            @Override
            public void lock() throws Exception {
                ask(lock);
            }

            @Override
            public void unlock() throws Exception {
                ask(unlock);
            }
        };
    }

    private Lock of(int number) throws Exception {
        String name = hot ? "bench/hot" : String.format("bench/own/%06d", number);
        if (redisson == null) {
            return rlockd(name);
        }
        RLock l = kind.equals("fair") ? redisson.getFairLock(name) : redisson.getLock(name);
        return new Lock() {
            @Override
            public void lock() {
                l.lock();
            }

            @Override
            public void unlock() {
                l.unlock();
            }
        };
    }

    /** Times in nanoseconds. */
    private static final class Times {
        private long[] ns = new long[1024];
        private int n;

        void add(long value) {
            if (n == ns.length) {
                ns = Arrays.copyOf(ns, 2 * n);
            }
            ns[n++] = value;
        }
    }

    /** What one thread measured. */
    private static final class Result {
        private final Times pairs = new Times();
        private final Times locks = new Times();
    }

    private void run(Lock l, Result r) throws Exception {
        long now = System.nanoTime();
        while (now < end) {
            long asked = now;
            l.lock();
            long got = System.nanoTime();
            l.unlock();
            now = System.nanoTime();
            if (now >= begin && now < end) {
                r.pairs.add(now - asked);
            }
            if (got >= begin) {
                r.locks.add(got - asked);
            }
        }
    }

    private static String list(Result[] results, Function<Result, Times> which) {
        return Arrays.stream(results).map(which).flatMapToLong(t -> Arrays.stream(t.ns, 0, t.n))
            .mapToObj(ns -> ns / 1000 + "." + ns / 100 % 10).collect(Collectors.joining(","));
    }

    public static void main(String[] args) throws Exception {
        Peers peers = new Peers(args);
        int n = Integer.parseInt(args[3]);
        Result[] results = new Result[n];
        CountDownLatch ready = new CountDownLatch(n);
        CountDownLatch start = new CountDownLatch(1);
        Thread[] threads = new Thread[n];
        for (int i = 0; i < n; i++) {
            int number = i;
            Result result = results[i] = new Result();
            threads[i] = new Thread(() -> {
                try {
                    Lock l = peers.of(number);
                    ready.countDown();
                    start.await();
                    peers.run(l, result);
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        ready.await();
        peers.begin = System.nanoTime() + (long) (Double.parseDouble(args[4]) * 1e9);
        peers.end = peers.begin + (long) (Double.parseDouble(args[5]) * 1e9);
        start.countDown();
        for (Thread t : threads) {
            t.join();
        }
        String counts = Arrays.stream(results).map(r -> "" + r.pairs.n).collect(Collectors.joining(","));
        System.out.println("{\"counts\": [" + counts + "], \"pair_us\": [" + list(results, r -> r.pairs)
            + "], \"lock_us\": [" + list(results, r -> r.locks) + "]}");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
