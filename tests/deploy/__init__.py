"""Deployment files held to what they promise, each by the tool that knows its language; no container engine or cluster is needed."""
