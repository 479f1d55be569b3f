import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Works only while its elector proves that this pod leads. */
public final class Main {
  /** Milliseconds. The elector sends a line each second: after this the stream is dead. */
  private static final int SILENCE = 3000;
  /** Milliseconds. Electors and mains start in any order. */
  private static final int REDIAL = 200;
  /** Seconds: /proc/uptime is cut off after two digits. */
  private static final double RESOLUTION = 0.01;

  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static volatile JsonNode newest = MAPPER.createObjectNode();

  /**
   * The clock that validUntil counts, at most 10 ms ahead. System.nanoTime stops while the machine
   * is suspended: a lead would seem to last longer than it is proven.
   */
  private static double boottime() throws IOException {
    String uptime = Files.readString(Path.of("/proc/uptime"));
    return Double.parseDouble(uptime.substring(0, uptime.indexOf(' '))) + RESOLUTION;
  }

  /** The fencing token while the lead is proven, else null. */
  private static Long token() throws IOException {
    JsonNode document = newest;
    boolean isLeader = document.path("isLeader").asBoolean(false);
    double validUntil = document.path("validUntil").asDouble(0);
    JsonNode token = document.path("fencingToken");
    return isLeader && token.isNumber() && boottime() < validUntil ? token.asLong() : null;
  }

  /** Hears the elector for one connection. The last proof ends by itself, at validUntil. */
  private static void follow(URI url) throws IOException {
    HttpURLConnection connection = (HttpURLConnection) url.toURL().openConnection();
    connection.setConnectTimeout(SILENCE);
    connection.setReadTimeout(SILENCE);
    try (var lines = new BufferedReader(new InputStreamReader(connection.getInputStream()))) {
      for (String line; (line = lines.readLine()) != null; ) {
        newest = MAPPER.readTree(line);
      }
    } finally {
      connection.disconnect();
    }
  }

  private static void followForEver(URI url) {
    while (true) {
      try {
        follow(url);
      } catch (IOException e) {
        // The next connection may be better.
      }
      sleep(REDIAL);
    }
  }

  private static void sleep(int milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException e) {
      Runtime.getRuntime().halt(1);
    }
  }

  public static void main(String[] arguments) throws IOException {
    String elector = System.getenv().getOrDefault("ELECTOR", "http://127.0.0.1:4040");
    Path ledger = Path.of(System.getenv("LEDGER"));
    // A JVM goes on working during its shutdown hooks: SIGTERM ends it at once.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
    Thread following = new Thread(() -> followForEver(URI.create(elector + "/leader?watch=true")));
    following.setDaemon(true);
    following.start();
    for (; ; sleep(50)) {
      Long token = token();
      if (token != null) { // one unit of work
        Files.writeString(
            ledger, token + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      }
    }
  }
}
