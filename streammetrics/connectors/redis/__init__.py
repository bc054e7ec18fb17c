"""Redis: the store of task state, values that all processes share, and checks of the server. Only this folder imports redis-py.

`store` reads and writes tasks; `keys` names every key and field and reads what scripts return; `pipelines` commits; `lua` has the scripts
for everything else.
"""
