"""`DataContract`: values judged by a contract of the Open Data Contract Standard (ODCS 3.x)."""
