"""The HTTP port: who may ask, how much, and what is answered, with the page and its scripts."""
