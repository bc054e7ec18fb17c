"""Redis: the store of task state, a blob store that all processes share, and checks of the server. Only this folder imports redis-py.

`store` reads and writes tasks; `keys` names every key and field; `transaction` commits; `lua` has the scripts for everything else, and
`replies` reads what they return.
"""
