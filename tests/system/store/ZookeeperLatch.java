/* Curator's LeaderLatch as a program: contends for a path, reports when it leads, and leaves on request.
 *
 *     java ZookeeperLatch HOSTS PATH ID SESSION_MS
 *
 * Prints "leading" and "not leading" when its state changes. Input "close" releases the latch; "leader" prints the leader that
 * Curator sees. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryOneTime;

public class ZookeeperLatch {
    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], Integer.parseInt(args[3]), 10000, new RetryOneTime(100));
        client.start();
        LeaderLatch latch = new LeaderLatch(client, args[1], args[2]);
        latch.addListener(new LeaderLatchListener() {
            public void isLeader() {
                print("leading");
            }

            public void notLeader() {
                print("not leading");
            }
        });
        latch.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("leader")) {
                print("leader " + latch.getLeader().getId());
            } else if (line.equals("close")) {
                latch.close();
                print("closed");
            }
        }
        client.close();
    }
}
