# SPDX-License-Identifier: Apache-2.0
"""Hudi's option names, and what lakebraid does with each: parsed once, at the edge, into small frozen values."""

from lakebraid.options.parsing import OptionNotice, tell
from lakebraid.options.reading import ReadOptions, read_options
from lakebraid.options.streaming import SinkOptions, SourceOptions, sink_options, source_options
from lakebraid.options.writing import WriteOptions, write_options

__all__ = [
    "OptionNotice",
    "ReadOptions",
    "SinkOptions",
    "SourceOptions",
    "WriteOptions",
    "read_options",
    "sink_options",
    "source_options",
    "tell",
    "write_options",
]
