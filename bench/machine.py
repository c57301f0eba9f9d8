#!/usr/bin/env python3
"""What this machine is called, and in which file of bench/results its numbers are kept."""
import re


def cpu_fields():
    """The first CPU's lines of /proc/cpuinfo."""
    fields = {}
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if not line.strip():
                break
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
    return fields


def description():
    """As lscpu says it; family and model, since hypervisors shorten the name."""
    cpu = cpu_fields()
    return (f"{cpu.get('model name', 'unknown CPU')} (family {cpu.get('cpu family', '?')}, "
            f"model {cpu.get('model', '?')})")


def file_stem():
    """The description as a file name: amd-epyc-family-26-model-2."""
    return re.sub(r"[^a-z0-9]+", "-", description().lower()).strip("-")


if __name__ == "__main__":
    print(description(), file_stem(), sep="\n")
