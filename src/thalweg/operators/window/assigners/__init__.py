"""Assigners: what each kind of window means at run time, for the engine.

assigner          what the engine needs of every kind
changes           rows in order, and where a batch changes them
by_kind           which assigner runs which kind
by_time           windows that follow from times: slide by tuple, sliding from the first row, and
                  kinds that look at one tuple at a time
whole_partitions  what the kinds below share: all rows of a partition are evaluated
by_rank           windows that need ranks: slide by every n-th tuple
by_rows           sliding windows over rows, by arrival or by rank
landmark          windows over everything so far
sessions          chains of starts; `latest_chains`: the last chain of each partition
counts            windows of N consecutive starts or ends
"""
