"""Programs that the tests and the Makefile start: benchmarks, servers, and what searches for faults. CONTRIBUTING lists them."""
