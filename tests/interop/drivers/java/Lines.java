import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The line protocol of the drivers: `id thread verb words...` in, `id ok value`, `id no` or `id err why` out. */
final class Lines {
    /** One verb. Runs on the thread that the line named: null is `no`, everything else `ok` and the value. */
    interface Verbs {
        Object run(String thread, String verb, String[] words) throws Exception;
    }

    private Lines() {
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void answer(Verbs verbs, String[] parts) {
        String[] words = new String[parts.length - 3];
        System.arraycopy(parts, 3, words, 0, words.length);
        try {
            Object value = verbs.run(parts[1], parts[2], words);
            say(parts[0] + (value == null ? " no" : " ok " + value));
        } catch (Throwable e) {
            say(parts[0] + " err " + (e.getClass().getSimpleName() + ": " + e.getMessage()).replace('\n', ' '));
        }
    }

    /** Serves standard input to its end. */
    static void serve(Verbs verbs) throws Exception {
        Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            threads.computeIfAbsent(parts[1], t -> Executors.newSingleThreadExecutor())
                   .execute(() -> answer(verbs, parts));
        }
        System.exit(0);
    }
}
