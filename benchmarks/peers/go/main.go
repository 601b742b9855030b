// controller-runtime on the work of `bench-runtimes`: the first argument says which. KUBECONFIG says where the server is.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	work := os.Args[1]
	var numbers [3]int
	for i, word := range os.Args[2:] {
		numbers[i], _ = strconv.Atoi(word)
	}
	switch work {
	case "websites":
		return syncWebsites(ctx)
	case "pods":
		return syncPods(ctx)
	case "storm":
		return storm(ctx, numbers[0], numbers[1])
	case "noop":
		return noop(ctx, numbers[0], numbers[1], numbers[2])
	case "operator":
		return runOperator(ctx, numbers[0])
	case "start":
		return start(ctx)
	}
	return fmt.Errorf("unknown work: %s", work)
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, addToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// newManager has no server of metrics and probes; the metrics themselves are recorded.
func newManager() (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
}

// synced fills a cache of one kind, and prints what that took.
func synced(ctx context.Context, one client.Object) (cache.Cache, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	cached, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	go func() { _ = cached.Start(ctx) }()
	if !cached.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("the cache was not started")
	}
	if err := cached.List(ctx, &corev1.NamespaceList{}); err != nil { // connected before it is measured
		return nil, err
	}
	before, began := collected(), cpu()
	if _, err := cached.GetInformer(ctx, one); err != nil {
		return nil, err
	}
	if !cached.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("the cache was not synced")
	}
	spent := cpu() - began
	say("synced", 0, spent, collected()-before)
	return cached, nil
}

// syncWebsites lists all Websites into a cache that a watch follows, and then reads each of them by its key.
func syncWebsites(ctx context.Context) error {
	cached, err := synced(ctx, &Website{})
	if err != nil {
		return err
	}
	keys, err := keysOf(ctx, cached)
	if err != nil {
		return err
	}
	began, length := cpu(), 0
	for _, key := range keys {
		var site Website
		if err := cached.Get(ctx, key, &site); err != nil {
			return err
		}
		length += len(site.Spec.Image)
	}
	if length == 0 {
		return fmt.Errorf("the Websites have no images")
	}
	say("read each", len(keys), cpu()-began, 0)
	return nil
}

func keysOf(ctx context.Context, reader client.Reader) ([]client.ObjectKey, error) {
	var sites WebsiteList
	if err := reader.List(ctx, &sites, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	keys := make([]client.ObjectKey, len(sites.Items))
	for i := range sites.Items {
		keys[i] = client.ObjectKeyFromObject(&sites.Items[i])
	}
	return keys, nil
}

// syncPods lists all Pods into a cache that a watch follows, and then reads all of them, twice; then without copies.
func syncPods(ctx context.Context) error {
	cached, err := synced(ctx, &corev1.Pod{})
	if err != nil {
		return err
	}
	for _, phase := range []string{"read all", "read again", "read uncopied"} {
		var options []client.ListOption
		if phase == "read uncopied" {
			options = append(options, client.UnsafeDisableDeepCopy)
		}
		began := cpu()
		var pods corev1.PodList
		if err := cached.List(ctx, &pods, options...); err != nil {
			return err
		}
		running := 0
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Spec.Containers[0].Image != "" && pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		say(phase, running, cpu()-began, 0)
	}
	return nil
}

// newSites has a controller that only reads the typed object, with the predicate of generations.
func newSites(counter *counter, concurrency int, more ...source.Source) (ctrl.Manager, error) {
	mgr, err := newManager()
	if err != nil {
		return nil, err
	}
	reader := mgr.GetClient()
	made := ctrl.NewControllerManagedBy(mgr).
		For(&Website{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency})
	for _, one := range more {
		made = made.WatchesRawSource(one)
	}
	return mgr, made.Complete(reconcileFunc(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		var site Website
		if err := reader.Get(ctx, request.NamespacedName, &site); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if site.Spec.Image != "" {
			counter.count()
		}
		return ctrl.Result{}, nil
	}))
}

type reconcileFunc func(context.Context, ctrl.Request) (ctrl.Result, error)

func (f reconcileFunc) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return f(ctx, request)
}

// storm reconciles each Website once, and again whenever the benchmark has changed all of them.
func storm(ctx context.Context, count, concurrency int) error {
	sites := newCounter(count)
	mgr, err := newSites(sites, concurrency)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-sites.reached
		say("watching", count, 0, 0)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			sites.expect(count)
			began := cpu()
			say("begun", 0, 0, 0)
			<-sites.reached
			say("watched", count, cpu()-began, 0)
		}
		cancel()
	}()
	return mgr.Start(ctx)
}

// noop reconciles all keys again and again, without a change.
func noop(ctx context.Context, count, rounds, concurrency int) error {
	sites, events := newCounter(count), make(chan event.GenericEvent, 1024)
	mgr, err := newSites(sites, concurrency, source.Channel(events, &handler.EnqueueRequestForObject{}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		<-sites.reached
		keys, err := keysOf(ctx, mgr.GetCache())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		began := cpu()
		for range rounds {
			sites.expect(len(keys))
			for _, key := range keys {
				meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
				events <- event.GenericEvent{Object: &Website{ObjectMeta: meta}}
			}
			<-sites.reached
		}
		say("reconciled", rounds*len(keys), cpu()-began, 0)
	}()
	return mgr.Start(ctx)
}

// start ends at the first reconcile, with what the process has taken until then.
func start(ctx context.Context) error {
	sites := newCounter(1)
	mgr, err := newSites(sites, 4)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-sites.reached
		say("started", 1, cpu(), memory())
		cancel()
	}()
	return mgr.Start(ctx)
}
