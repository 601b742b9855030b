"""Definitions and objects of other projects, and kube-apiserver's answers to them; `make test-corpus` plays them."""
