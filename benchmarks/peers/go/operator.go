package main

import (
	"bufio"
	"context"
	"maps"
	"os"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// operator gives each Website a child and a status: the child is watched, and applied only if it is not as it should be.
type operator struct {
	client.Client
}

func runOperator(ctx context.Context, concurrency int) error {
	mgr, err := newManager()
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&Website{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(&operator{mgr.GetClient()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		mgr.GetCache().WaitForCacheSync(ctx)
		say("started", 0, cpu(), memory())
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			say("cpu", 0, cpu(), memory())
		}
		cancel()
	}()
	return mgr.Start(ctx)
}

// Reconcile makes the world look as a Website says.
func (o *operator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Website
	if err := o.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	data := map[string]string{"image": site.Spec.Image}
	var cached corev1.ConfigMap
	err := o.Get(ctx, request.NamespacedName, &cached)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !maps.Equal(cached.Data, data) {
		owner := metav1ac.OwnerReference().
			WithAPIVersion(groupVersion.String()).WithKind("Website").
			WithName(site.Name).WithUID(site.UID).
			WithController(true).WithBlockOwnerDeletion(true)
		child := corev1ac.ConfigMap(site.Name, site.Namespace).WithOwnerReferences(owner).WithData(data)
		if err := o.Apply(ctx, child, client.FieldOwner("websites"), client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	if site.Status.Ready != 1 {
		before := site.DeepCopyObject().(*Website)
		site.Status.Ready = 1
		return ctrl.Result{}, o.Status().Patch(ctx, &site, client.MergeFrom(before))
	}
	return ctrl.Result{}, nil
}
