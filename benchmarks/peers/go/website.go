package main

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Website is the kind of the measurements, with every field of the payloads.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebsiteSpec   `json:"spec"`
	Status WebsiteStatus `json:"status,omitempty"`
}

// WebsiteSpec is what somebody wants.
type WebsiteSpec struct {
	Image       string     `json:"image"`
	Certificate string     `json:"certificate"`
	Replicas    int64      `json:"replicas,omitempty"`
	Ports       []Port     `json:"ports,omitempty"`
	Env         []Variable `json:"env,omitempty"`
	Resources   *Resources `json:"resources,omitempty"`
}

// Port is a port of the container.
type Port struct {
	Name          string `json:"name,omitempty"`
	ContainerPort int64  `json:"containerPort,omitempty"`
	Protocol      string `json:"protocol,omitempty"`
}

// Variable is one of the environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Resources are as texts.
type Resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

// WebsiteStatus is what the operator has made of it.
type WebsiteStatus struct {
	Ready              int64              `json:"ready,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// WebsiteList is a list of Websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Website `json:"items"`
}

var groupVersion = schema.GroupVersion{Group: "example.dev", Version: "v1"}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

// DeepCopyInto copies what a plain assignment would share.
func (in *Website) DeepCopyInto(out *Website) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Ports = slices.Clone(in.Spec.Ports)
	out.Spec.Env = slices.Clone(in.Spec.Env)
	if in.Spec.Resources != nil {
		out.Spec.Resources = &Resources{
			Requests: maps.Clone(in.Spec.Resources.Requests),
			Limits:   maps.Clone(in.Spec.Resources.Limits),
		}
	}
	out.Status.Conditions = slices.Clone(in.Status.Conditions)
}

// DeepCopyObject makes a Website a runtime.Object.
func (in *Website) DeepCopyObject() runtime.Object {
	out := new(Website)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject makes a WebsiteList a runtime.Object.
func (in *WebsiteList) DeepCopyObject() runtime.Object {
	out := &WebsiteList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Website, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
