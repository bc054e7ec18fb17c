"""The live page in a real Chromium, with the real HTTP port and reports of the product's own code.

Each test fails on console errors, failing scripts, violations of the content security policy, and requests to other hosts.
"""
