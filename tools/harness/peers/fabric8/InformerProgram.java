// An informer of fabric8's client on the ConfigMaps of a namespace, as operators in Java have it.
// It watches over a WebSocket. What it prints says tools/harness/peers/other_informers.py.

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.http.AsyncBody;
import io.fabric8.kubernetes.client.http.HttpRequest;
import io.fabric8.kubernetes.client.http.HttpResponse;
import io.fabric8.kubernetes.client.http.Interceptor;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.stream.Collectors;

public class InformerProgram {
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static String name(ConfigMap it) {
        return it.getMetadata().getName();
    }

    private static final class Handler implements ResourceEventHandler<ConfigMap> {
        @Override
        public void onAdd(ConfigMap it) {
            say("ADDED " + name(it));
        }

        @Override
        public void onUpdate(ConfigMap before, ConfigMap it) {
            String old = before.getMetadata().getResourceVersion();
            if (!old.equals(it.getMetadata().getResourceVersion())) {
                say("MODIFIED " + name(it));
            }
        }

        @Override
        public void onDelete(ConfigMap it, boolean isUnknown) {
            say("DELETED " + name(it));
        }
    }

    /** Where a WebSocket is refused the client watches over plain HTTP, and says so nowhere. */
    private static final class Watches implements Interceptor {
        @Override
        public void after(
                HttpRequest asked,
                HttpResponse<?> answer,
                AsyncBody.Consumer<List<ByteBuffer>> body) {
            if (asked.uri().getQuery() != null && asked.uri().getQuery().contains("watch=true")) {
                say("WATCHED " + answer.code());
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Config config = Config.fromKubeconfig(new File(arguments[0]));
        String namespace = arguments[1];
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        try (KubernetesClient client =
                        new KubernetesClientBuilder()
                                .withConfig(config)
                                .withHttpClientBuilderConsumer(
                                        it -> it.addOrReplaceInterceptor("watches", new Watches()))
                                .build();
                SharedIndexInformer<ConfigMap> informer =
                        client.configMaps().inNamespace(namespace).inform(new Handler())) {
            for (String line = asked.readLine(); line != null; line = asked.readLine()) {
                try {
                    say(answer(client, namespace, line.split(" ")));
                } catch (KubernetesClientException refused) {
                    say("REFUSED " + refused.getCode());
                }
            }
        }
    }

    private static String answer(KubernetesClient client, String namespace, String[] words) {
        var maps = client.configMaps().inNamespace(namespace);
        if (words[0].equals("get")) {
            ConfigMap found = maps.withName(words[1]).get();
            return found == null ? "REFUSED 404" : "GOT " + name(found);
        }
        return "LISTED "
                + maps.list().getItems().stream()
                        .map(InformerProgram::name)
                        .sorted()
                        .collect(Collectors.joining(","));
    }
}
