"""What the stored state of every owner has in common: the changes of a commit, rows of tables, versions, and MessagePack.

It knows no owner and no store. To a store, all values are bytes. Each owner of state has its stored form beside it.
"""
