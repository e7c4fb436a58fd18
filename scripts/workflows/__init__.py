"""This package is the workflow suite: whole stories of the product, run through its command line, each against what it promises.

    doit workflows            all cases, with build/workflows/report.json and report.md
    evals/workflows/*.yaml    the cases, as data (`cases` says what they may hold)

A case runs in a fresh repository (`folder`), is compared with its expectations (`running`) and counted (`reports`).
"""
