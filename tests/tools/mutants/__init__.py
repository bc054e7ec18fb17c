"""Small changes of the modules that decide, and the tests that notice them: `python -m tests.tools.mutants`."""
