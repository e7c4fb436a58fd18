"""This module runs the suite, or the cases that are named, and writes the reports.

python -m scripts.workflows             every case; build/workflows/report.json and report.md
python -m scripts.workflows --page      and the summary in docs/workflows.md
python -m scripts.workflows ID…         these cases alone
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from scripts.workflows import cases, page, reports, running

OUTPUT = Path("build") / "workflows"


def main() -> int:
    parser = argparse.ArgumentParser(prog="workflows", description="Run the workflow suite.")
    parser.add_argument("ids", metavar="ID", nargs="*", help="cases; all where none is named")
    parser.add_argument("--page", action="store_true", help=f"write the summary into {page.PAGE}")
    parser.add_argument("--output", metavar="FOLDER", type=Path, default=OUTPUT, help="where the reports go")
    options = parser.parse_args()
    known = {case.id: case for case in cases.read()}
    if lost := sorted(set(options.ids) - known.keys()):
        parser.error(f"there is no case {', '.join(lost)}")
    outcomes = []
    for case in [known[each] for each in options.ids] or known.values():
        with tempfile.TemporaryDirectory() as folder:
            outcomes.append(running.run(case, Path(folder) / "case"))
        if not outcomes[-1].passed:
            print(f"not passed: {case.id}", file=sys.stderr)
    found = reports.report(outcomes)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "report.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", "utf-8")
    (options.output / "report.md").write_text(reports.markdown(found), "utf-8")
    if options.page:
        page.PAGE.write_text(page.refreshed(page.PAGE.read_text("utf-8"), found), "utf-8")
    print(reports.summary(found), end="")
    print(f"Written: {options.output / 'report.json'}, {options.output / 'report.md'}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
