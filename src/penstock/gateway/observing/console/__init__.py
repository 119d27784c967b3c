"""The console: one page on the metrics listener, and its figures as JSON.

`recent_refusals` keeps the recent refusals, by reason; `figures` makes rates of the
counts, and `history` keeps those of the last hour; `topic_plans` shows which policies each topic
has, and where its settings come from. `state` puts them together as JSON, `subscribers` passes on
the changes, `page` has the files for browsers, and `console` answers their requests.

All of it is bounded, for any clients: rows, points, subscribers and their queues. A refusal
costs a look-up; everything else is done a few times a second, and only while the page is open.
"""
