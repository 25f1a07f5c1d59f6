"""Checks the JSON that Pith writes against the published schema, by a validator that is not Pith's.

    schema.py PITH SCHEMA FOLDER [REPORT...]     # also these reports
"""

import json
import pathlib
import subprocess
import sys

import jsonschema

from make_report import make_report


def main():
    pith, schema, folder = sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text()), pathlib.Path(sys.argv[3])
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    folder.mkdir(parents=True, exist_ok=True)
    for layers in (0, 2):
        source = folder / f"schema-{layers}.json"
        source.write_text(json.dumps(make_report(layers)))
        validator.validate(make_report(layers))
        written = subprocess.run([pith, "report", source, "--format", "json"], check=True, capture_output=True)
        validator.validate(json.loads(written.stdout))
    for path in sys.argv[4:]:
        validator.validate(json.loads(pathlib.Path(path).read_text()))
    for change in ({"tensors": [{}]}, {"unknown": 1}, {"seconds": -1}, {"schema_version": 2}):
        assert not validator.is_valid(make_report(0) | change), change
    print("report.json follows its schema")


main()
