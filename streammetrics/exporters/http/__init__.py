"""The HTTP port: connections, login, routes, and the live page with its scripts. No number is computed here."""
