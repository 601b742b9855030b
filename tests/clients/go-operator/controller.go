package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	operator  = "go-operator"
	finalizer = "go.example.com/registered"
	// The registry is a namespace of its own. Nothing there can be owned by a site, so that a finalizer has to clean up.
	registry = "go-registry"
)

type siteReconciler struct {
	client.Client
	recorder events.EventRecorder
}

func (r *siteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}).Owns(&appsv1.Deployment{}).Complete(r)
}

// Reconcile makes the world look as a site says.
func (r *siteReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.cleanUp(ctx, &site)
	}
	if controllerutil.AddFinalizer(&site, finalizer) {
		if err := r.Update(ctx, &site); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.register(ctx, &site); err != nil {
		return ctrl.Result{}, fmt.Errorf("register: %w", err)
	}
	if err := r.deploy(ctx, &site); err != nil {
		return ctrl.Result{}, fmt.Errorf("deploy: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, &site)
}

// register writes the site into the registry, with plain creates and updates.
func (r *siteReconciler) register(ctx context.Context, site *Site) error {
	entry := entryOf(site)
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, entry, func() error {
		entry.Data = map[string]string{"image": site.Spec.Image}
		return nil
	})
	return err
}

// deploy applies the Deployment on the side of the server: only the fields that are named here are ours.
func (r *siteReconciler) deploy(ctx context.Context, site *Site) error {
	labels := map[string]string{"site": site.Name}
	owner := metav1ac.OwnerReference().
		WithAPIVersion(groupVersion.String()).WithKind("Site").
		WithName(site.Name).WithUID(site.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	container := corev1ac.Container().WithName("web").WithImage(site.Spec.Image)
	template := corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(corev1ac.PodSpec().WithContainers(container))
	deployment := appsv1ac.Deployment(site.Name, site.Namespace).
		WithLabels(labels).
		WithOwnerReferences(owner).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(*site.Spec.Replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(template))
	return r.Apply(ctx, deployment, client.FieldOwner(operator), client.ForceOwnership)
}

// report writes the status, and an event when the image is another one than before.
func (r *siteReconciler) report(ctx context.Context, site *Site) error {
	before := site.DeepCopyObject().(*Site)
	site.Status.Image = site.Spec.Image
	site.Status.ObservedGeneration = site.Generation
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: site.Generation,
		Reason: "Deployed", Message: "the Deployment is as the site says",
	})
	if err := r.Status().Patch(ctx, site, client.MergeFrom(before)); err != nil {
		return err
	}
	if before.Status.Image != site.Status.Image {
		r.recorder.Eventf(site, nil, corev1.EventTypeNormal, "Deployed", "Deploy", "runs %s", site.Spec.Image)
	}
	return nil
}

// cleanUp takes the site out of the registry, and lets it go.
func (r *siteReconciler) cleanUp(ctx context.Context, site *Site) error {
	if err := r.Delete(ctx, entryOf(site)); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if !controllerutil.RemoveFinalizer(site, finalizer) {
		return nil
	}
	r.recorder.Eventf(site, nil, corev1.EventTypeNormal, "Unregistered", "CleanUp", "is not in the registry any more")
	return client.IgnoreNotFound(r.Update(ctx, site)) // the cache may still show a site that is gone
}

func entryOf(site *Site) *corev1.ConfigMap {
	name := fmt.Sprintf("%s.%s", site.Namespace, site.Name)
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: registry, Name: name}}
}
