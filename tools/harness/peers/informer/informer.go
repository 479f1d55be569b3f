package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// spec is what one --informer asks for.
type spec struct {
	text                         string
	kind                         string
	resource                     schema.GroupVersionResource
	namespace                    string
	labelSelector, fieldSelector string
}

// parseSpec reads KIND:RESOURCE[.VERSION[.GROUP]][?QUERY].
func parseSpec(text string) (spec, error) {
	kind, rest, found := strings.Cut(text, ":")
	if !found {
		return spec{}, fmt.Errorf("--informer=%s: no kind", text)
	}
	name, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return spec{}, fmt.Errorf("--informer=%s: %w", text, err)
	}
	s := spec{text: text, kind: kind, resource: schema.GroupVersionResource{Version: "v1"}}
	parts := strings.SplitN(name, ".", 3)
	s.resource.Resource = parts[0]
	if len(parts) > 1 {
		s.resource.Version = parts[1]
	}
	if len(parts) > 2 {
		s.resource.Group = parts[2]
	}
	for key, value := range values {
		switch key {
		case "namespace":
			s.namespace = value[0]
		case "labelSelector":
			s.labelSelector = value[0]
		case "fieldSelector":
			s.fieldSelector = value[0]
		default:
			return spec{}, fmt.Errorf("--informer=%s: unknown %q", text, key)
		}
	}
	return s, nil
}

// source is one way to list and watch: typed, dynamic or of metadata only.
type source struct {
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	example runtime.Object
}

// listerWatcher is the part of a resource's client that informers use.
type listerWatcher[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func sourceOf[L runtime.Object](client listerWatcher[L], example runtime.Object) source {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, o)
	}
	return source{list, client.Watch, example}
}

func typedSource(config *rest.Config, s spec, accept string) (source, error) {
	if accept != "" {
		config = rest.CopyConfig(config)
		config.AcceptContentTypes = accept
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return source{}, err
	}
	core := client.CoreV1()
	switch s.resource.Resource {
	case "pods":
		return sourceOf(core.Pods(s.namespace), &corev1.Pod{}), nil
	case "configmaps":
		return sourceOf(core.ConfigMaps(s.namespace), &corev1.ConfigMap{}), nil
	case "secrets":
		return sourceOf(core.Secrets(s.namespace), &corev1.Secret{}), nil
	case "services":
		return sourceOf(core.Services(s.namespace), &corev1.Service{}), nil
	case "nodes":
		return sourceOf(core.Nodes(), &corev1.Node{}), nil
	}
	return source{}, fmt.Errorf("--informer=%s: no typed client", s.text)
}

func dynamicSource(config *rest.Config, s spec) (source, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return source{}, err
	}
	resource := client.Resource(s.resource).Namespace(s.namespace)
	return sourceOf(resource, &unstructured.Unstructured{}), nil
}

func metadataSource(config *rest.Config, s spec) (source, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return source{}, err
	}
	resource := client.Resource(s.resource).Namespace(s.namespace)
	return sourceOf(resource, &metav1.PartialObjectMetadata{}), nil
}

func newSource(config *rest.Config, s spec, accept string) (source, error) {
	switch s.kind {
	case "typed":
		return typedSource(config, s, accept)
	case "dynamic":
		return dynamicSource(config, s)
	case "metadata":
		return metadataSource(config, s)
	}
	return source{}, fmt.Errorf("--informer=%s: unknown kind %q", s.text, s.kind)
}

// informer is one shared informer with what is noted about it.
type informer struct {
	spec   spec
	shared cache.SharedIndexInformer
	ledger *ledger
	copy   *copyOfEvents
}

func newInformer(config *rest.Config, s spec, accept string) (*informer, error) {
	from, err := newSource(config, s, accept)
	if err != nil {
		return nil, err
	}
	notes := newLedger()
	select_ := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = s.labelSelector, s.fieldSelector
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			found, err := from.list(ctx, select_(o))
			notes.listed(found, err)
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := from.watch(ctx, select_(o))
			return notes.watched(w, o, err)
		},
	}
	it := &informer{spec: s, ledger: notes, copy: newCopy(notes)}
	it.shared = cache.NewSharedIndexInformerWithOptions(lw, from.example, cache.SharedIndexInformerOptions{})
	if _, err := it.shared.AddEventHandler(it.copy); err != nil {
		return nil, err
	}
	return it, nil
}
