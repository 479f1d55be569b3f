// Command sharded-operator writes the checksum of each ConfigMap that asks for one, by a label,
// into an annotation of it. Any number of replicas run it, each beside an elector with --shards,
// which says what is whose; shards.go follows that.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

const (
	// Label and annotation.
	name = "example.com/checksum"
	// The longest that a write may take.
	limit   = 5 * time.Second
	workers = 4
)

type operator struct {
	client kubernetes.Interface
	shards *Shards
	queue  workqueue.TypedRateLimitingInterface[string]
	// Of the present informer.
	store atomic.Pointer[cache.Store]
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// In a pod both are empty, and its service account is used.
	config, err := clientcmd.BuildConfigFromFlags(os.Getenv("API"), os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	elector := os.Getenv("ELECTOR")
	if elector == "" {
		elector = "http://127.0.0.1:4040"
	}
	limiter := workqueue.DefaultTypedControllerRateLimiter[string]()
	o := &operator{
		client: kubernetes.NewForConfigOrDie(config),
		shards: NewShards(elector),
		queue:  workqueue.NewTypedRateLimitingQueue(limiter),
	}
	go o.shards.Run(ctx)
	for range workers {
		go o.work(ctx)
	}
	o.inform(ctx)
	o.queue.ShutDown()
}

// inform has an informer of what is owned, another one whenever that changes. Where upstream
// ignores the shardSelector it has all objects, and Shards.Do sorts out whose they are.
func (o *operator) inform(ctx context.Context) {
	for ctx.Err() == nil {
		selector, changed := o.shards.Selector()
		present, stop := context.WithCancel(ctx)
		if selector != "" {
			o.start(present, selector)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		stop()
	}
}

func (o *operator) start(ctx context.Context, selector string) {
	only := informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.LabelSelector = name + "=wanted"
		options.ShardSelector = selector
	})
	factory := informers.NewSharedInformerFactoryWithOptions(o.client, 0, only)
	informer := factory.Core().V1().ConfigMaps().Informer()
	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			o.queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		log.Fatal(err)
	}
	store := informer.GetStore()
	o.store.Store(&store)
	factory.Start(ctx.Done())
}

func (o *operator) work(ctx context.Context) {
	for {
		key, isOver := o.queue.Get()
		if isOver {
			return
		}
		if err := o.reconcile(ctx, key); err != nil {
			if !apierrors.IsConflict(err) {
				log.Printf("%s: %v", key, err)
			}
			o.queue.AddRateLimited(key)
		} else {
			o.queue.Forget(key)
		}
		o.queue.Done(key)
	}
}

func (o *operator) reconcile(ctx context.Context, key string) error {
	object, exists, err := (*o.store.Load()).GetByKey(key)
	if err != nil || !exists {
		return err
	}
	found := object.(*corev1.ConfigMap)
	data, err := json.Marshal(found.Data)
	if err != nil {
		return err
	}
	checksum := fmt.Sprintf("%x", sha256.Sum256(data))
	if found.Annotations[name] == checksum {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             found.UID,
		"resourceVersion": found.ResourceVersion,
		"annotations":     map[string]string{name: checksum},
	}})
	if err != nil {
		return err
	}
	_, err = o.shards.Do(found.UID, limit, func() error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		objects := o.client.CoreV1().ConfigMaps(found.Namespace)
		_, err := objects.Patch(ctx, found.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	return err
}
