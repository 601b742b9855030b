package main

// The operator under envtest, as its users write such tests: `make test-envtest` runs it on levelset and on kube-apiserver.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var (
	environment *envtest.Environment
	config      *rest.Config
	c           client.Client
	scheme      = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, addToScheme} {
		if err := add(scheme); err != nil {
			return 1, err
		}
	}
	environment = &envtest.Environment{
		CRDDirectoryPaths:     []string{"crd.yaml"},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{siteWebhook()},
		},
	}
	var err error
	if config, err = environment.Start(); err != nil {
		return 1, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	if err = startManager(ctx, ended); err != nil {
		cancel()
		return 1, err
	}
	code := m.Run()
	cancel()
	if err = <-ended; err != nil {
		return 1, err
	}
	return code, environment.Stop()
}

func startManager(ctx context.Context, ended chan<- error) error {
	options := environment.WebhookInstallOptions
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		return err
	}
	reconciler := &siteReconciler{Client: mgr.GetClient(), recorder: mgr.GetEventRecorder(operator)}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(validate)})
	c = mgr.GetClient()
	go func() { ended <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("the cache was not synced")
	}
	return client.IgnoreAlreadyExists(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: registry}}))
}

func validate(_ context.Context, request admission.Request) admission.Response {
	if strings.Contains(string(request.Object.Raw), "forbidden/") {
		return admission.Denied("images of forbidden/ are not allowed")
	}
	return admission.Allowed("")
}

func siteWebhook() *admissionv1.ValidatingWebhookConfiguration {
	fail, none, path := admissionv1.Fail, admissionv1.SideEffectClassNone, "/validate"
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sites"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "sites.go.example.com",
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{"CREATE", "UPDATE"},
				Rule:       admissionv1.Rule{APIGroups: []string{groupVersion.Group}, APIVersions: []string{"v1"}, Resources: []string{"sites"}},
			}},
			FailurePolicy:           &fail,
			SideEffects:             &none,
			ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "hooks", Namespace: "default", Path: &path}},
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func site(name, image string) *Site {
	return &Site{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: SiteSpec{Image: image}}
}

func TestTheControllerDeploysASite(t *testing.T) {
	ctx, blog := context.Background(), site("blog", "nginx:1")
	eventually(t, "create", func() error { return client.IgnoreAlreadyExists(c.Create(ctx, blog)) })
	eventually(t, "status", func() error {
		var found Site
		if err := c.Get(ctx, client.ObjectKeyFromObject(blog), &found); err != nil {
			return err
		}
		if found.Status.Image != "nginx:1" || *found.Spec.Replicas != 1 {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
	eventually(t, "Deployment", func() error { return c.Get(ctx, client.ObjectKeyFromObject(blog), &appsv1.Deployment{}) })
	if err := c.Delete(ctx, blog); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deletion", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(blog), &Site{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	})
	// No controller manager runs: what the Site owned stays, as on kube-apiserver alone.
	time.Sleep(200 * time.Millisecond)
	if err := c.Get(ctx, client.ObjectKeyFromObject(blog), &appsv1.Deployment{}); err != nil {
		t.Fatalf("the Deployment must stay: %v", err)
	}
}

func TestTheWebhookDeniesASite(t *testing.T) {
	var err error
	eventually(t, "the webhook server", func() error {
		err = c.Create(context.Background(), site("bad", "forbidden/nginx"))
		if err == nil || apierrors.IsInternalError(err) {
			return fmt.Errorf("%v", err)
		}
		return nil
	})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "images of forbidden/ are not allowed") {
		t.Fatalf("%v", err)
	}
}

func TestTheSchemaRejectsASite(t *testing.T) {
	if err := c.Create(context.Background(), site("empty", "")); !apierrors.IsInvalid(err) {
		t.Fatalf("%v", err)
	}
}

func TestAUserMayDoWhatItsRoleSays(t *testing.T) {
	ctx := context.Background()
	user, err := environment.AddUser(envtest.User{Name: "jane", Groups: []string{"readers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jane, err := client.New(user.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := jane.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("default")); !apierrors.IsForbidden(err) {
		t.Fatalf("without a role: %v", err)
	}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "read"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: "Group", Name: "readers", APIGroup: rbacv1.GroupName}},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "read", APIGroup: rbacv1.GroupName},
	}
	for _, one := range []client.Object{role, binding} {
		if err := c.Create(ctx, one); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the role", func() error { return jane.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("default")) })
	if err := jane.Create(ctx, site("hers", "nginx")); !apierrors.IsForbidden(err) {
		t.Fatalf("what the role does not allow: %v", err)
	}
}

func TestAPodNeedsNoServiceAccountAndADeletedNamespaceStays(t *testing.T) {
	ctx, name := context.Background(), "short"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
	for _, one := range []client.Object{namespace, pod} {
		if err := c.Create(ctx, one); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	reader, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var found corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKeyFromObject(namespace), &found); err != nil || found.Status.Phase != corev1.NamespaceTerminating {
		t.Fatalf("%v %v", err, found.Status.Phase)
	}
}
