"""The built-in tools after the specification of the earlier bot: one line of JSON in, one line of JSON out.

None means no answer; `skip` means an answer that this program does not give: complex numbers, and integers above its bound.
"""

import json
import math
import re
import sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

FUNCTIONS = {name: getattr(math, name) for name in ("sqrt", "sin", "cos", "tan", "log", "log10", "pi", "e")}
FUNCTIONS |= {"abs": abs, "round": round, "min": min, "max": max, "sum": sum, "pow": pow}
NOTATION = re.compile(r"^(\d+)d(\d+)(?:(kh|kl)(\d+))?([+-]\d+)?$")


def calculator(expression):
    value = eval(expression, {"__builtins__": {}, **FUNCTIONS})
    if isinstance(value, complex) or (isinstance(value, int) and value.bit_length() > 4096):
        return "skip"
    if not isinstance(value, float):
        return str(value)
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def get_time(zone, form, millis):
    now = datetime.fromtimestamp(millis / 1000, timezone.utc).astimezone(ZoneInfo(zone))
    forms = {"full": "%A, %B %d, %Y at %I:%M %p %Z", "date": "%Y-%m-%d", "time": "%H:%M:%S %Z"}
    return now.isoformat() if form == "iso" else now.strftime(forms[form])


def roll_dice(notation, rolls):
    count, _, keep, kept, modifier = NOTATION.match(notation.lower().strip()).groups()
    rolls = rolls[: int(count)]
    chosen = sorted(rolls, reverse=keep == "kh")[: int(kept)] if keep else rolls
    total = sum(chosen) + int(modifier or 0)
    if len(rolls) == 1:
        return f"Rolled {notation}: **{total}**"
    shown = f"[{', '.join(map(str, rolls))}]"
    if keep:
        shown += f" → kept [{', '.join(map(str, chosen))}]"
    if int(modifier or 0):
        shown += f" {int(modifier):+}"
    return f"Rolled {notation}: {shown} = **{total}**"


for line in sys.stdin:
    tool, arguments = json.loads(line)
    try:
        answer = globals()[tool](*arguments)
    except Exception:
        answer = None
    print(json.dumps(answer))
