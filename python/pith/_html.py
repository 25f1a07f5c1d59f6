"""Tables for notebooks."""

from html import escape


def _table(head, rows, align):
    cell = '<{0} style="text-align:{1}">{2}</{0}>'.format
    lines = ["<table><tr>", *(cell("th", a, escape(h)) for h, a in zip(head, align)), "</tr>"]
    for row in rows:
        cells = (cell("td", a, escape(str(v))) for v, a in zip(row, align))
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "".join(lines) + "</table>"


def plan(p):
    rows = [
        (t.name, str(list(t.shape)), t.dtype, t.scheme, f"{t.bytes_before:,}", f"{t.bytes_after:,}")
        for t in p.tensors
    ]
    head = ("tensor", "shape", "stored as", "will be", "bytes", "bytes then")
    notes = "".join(f"<p>{escape(w)}</p>" for w in p.warnings)
    share = p.output_bytes / max(p.input_bytes, 1)
    return (
        f"<p><b>{p.input_bytes:,} &rarr; {p.output_bytes:,} bytes</b> ({share:.1%}), "
        f"{escape(p.format)}; can be read by {escape(', '.join(p.loads))}</p>"
        + notes
        + _table(head, rows, ("left", "left", "left", "left", "right", "right"))
    )


def verified(r):
    rows = [
        (t.name, t.dtype_b, f"{t.error.sqnr_db:.1f}" if t.error else "", t.problem)
        for t in r.tensors
    ]
    head = ("tensor", "stored as", "SQNR, dB", "problem")
    found = "".join(f"<p><b>{escape(p)}</b></p>" for p in r.problems) or "<p>No problem.</p>"
    return found + _table(head, rows, ("left", "left", "right", "left"))
