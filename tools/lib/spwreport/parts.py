# SPDX-License-Identifier: BSD-3-Clause
"""The small parts that pages are made of."""
from spwreport import svg
from spwreport.svg import esc

WIDE, NARROW = 980, 370
LONG_CELL = 24  # characters: a longer text is broken into lines


def figure(draw, legend="", narrow=""):
    """draw(width) twice: CSS shows the one that fits. narrow: a legend for the one without names at its lines."""
    return (f'<figure><div class="wide">{draw(WIDE)}</div><div '
            f'class="narrow">{draw(NARROW)}{narrow}</div>{legend}</figure>')


def cell(value, name=""):
    """name: of its column, which stands above the value where the columns have no room beside each other."""
    cls = "lost" if value == "lost" else "long" if len(str(value)) > LONG_CELL else ""
    return (f'<td{f" class={cls}" if cls else ""}{f" data-name={chr(34)}{esc(name)}{chr(34)}" if name else ""}>'
            f"{'&ndash;' if value is None else esc(value)}</td>")


def table(head, rows, marked=()):
    """rows: lists of texts, None or "lost"; marked: indices of rows that stand out."""
    out = "".join(f"<tr{' class=at' if i in marked else ''}>{''.join(map(cell, row, head))}</tr>"
                  for i, row in enumerate(rows))
    names = "".join(f"<th scope=col>{esc(name)}</th>" for name in head).replace("\u00a0(", " (")  # in two lines
    return f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>{out}</tbody></table></div>'


def folded(title, inner):
    return f"<details><summary>{esc(title)}</summary>{inner}</details>"


def time_or(value):
    return svg.time_ns(value) if isinstance(value, (int, float)) else value


def facts(tiles):
    """[(figure, what it is)]: what stands on top in large."""
    return '<div class="facts">' + "".join(f"<div><b{' class=lost' if big == 'lost' else ''}>{esc(big)}</b><span>"
                                           f"{esc(small)}</span></div>"
                                           for big, small in tiles) + "</div>"
