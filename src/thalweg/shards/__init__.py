"""A query in fragments: how a plan is cut where its rows are exchanged, what travels, and a
fragment at work in one bucket. It knows no Spark.

    fragments/    a plan cut into fragments
    sources/      rows of files and frames as chunks
    exchange/     chunks, their headers, and how rows find their bucket
    worker/       a fragment in one bucket
    state/        its state in a store, as slices
    stateless/    queries that keep no rows
    output/       answers on their way to a sink, and the places that keep them
    reports/      what buckets report, and what follows from it
    checkpoint/   what protects a checkpoint
    host/         queries that come and go

`local_engine` runs all of it in this process.
"""
