"""The differential fuzzer: generated requests, sent to our server and to kube-apiserver side by side."""
