"""The command that says which data sets are at hand: `stagewise data`."""

from stagewise.cli.options import DataDir, Json
from stagewise.cli.tables import print_json, print_table


def data(data_dir: DataDir = None, json: Json = False) -> None:
    """The data sets by name: where each is found, its size on the disk, and what is missing."""
    from stagewise.datasets import available

    findings = available(data_dir)
    if json:
        print_json(findings)
        return
    lines = []
    for f in findings:
        missing = f"missing: {', '.join(f.missing)}" if f.missing else ""
        size = f"{f.size_bytes / 1e6:.1f}" if f.where else ""
        place = "\n".join(part for part in (f.where, missing) if part)
        lines.append([f.name, f.layout or "", size, place])
    headings = ["name", "layout", "size (MB)", "where, or what is missing"]
    found = f"{sum(f.found for f in findings)} of {len(findings)} data sets found"
    print_table(headings, lines, found, left=(0, 1, 3))
