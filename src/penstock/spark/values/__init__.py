"""Values that are parsed for the column `value` of a table: a struct, an array or a map."""
