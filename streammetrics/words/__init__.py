"""Words: how a number, a share, a time, a name and a sentence are written. Pure; knows no other room."""
