"""The commands, a module each that reads its words and settings, and beside it what it does and prints."""
