"""A document of an older version."""

OLD = {
    "judged": 10, "accepted": 9, "refused": 1, "dropped": 0, "failed": 0, "share": 0.1,
    "reasons": [{"outcome": "refused", "policy": "p.P", "code": 87, "message": "bad", "count": 1,
                 "samples": [{"partition": 0, "offset": 3}]}],
    "reasons_left_out": 0, "policies": [{"policy": "p.P", "count": 1}],
    "partitions": [{"partition": 0, "accepted": 9, "refused": 1, "dropped": 0, "failed": 0,
                    "first_refused_offset": 3, "last_refused_offset": 3}],
    "hours": [{"hour": "2026-01-01T00:00+00:00", "accepted": 9, "refused": 1, "dropped": 0,
               "failed": 0}],
    "header_keys": [], "key_prefixes": [], "compared": None,
    "about": {"source": "t", "range": [{"partition": 0, "from": 0, "to": 10}], "file": "f",
              "fingerprint": "x", "other": None, "fail_over": None, "seconds": 1.5,
              "penstock": "0.1.0", "written": "2026-01-01T00:00:00+00:00"},
}  # fmt: skip
"""A report of before there were several topics."""
