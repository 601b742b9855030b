"""Runs the operator: `python -m shop --local`, or against the cluster of a kubeconfig."""

from levelset import run

from shop.operator import controllers, webhooks

if __name__ == "__main__":
    run(*controllers, webhooks=webhooks)
