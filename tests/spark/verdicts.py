"""The verdicts in a frame."""


def verdicts(df, name="NoBad"):
    rows = df.orderBy("offset").select("verdict.*").collect()
    return [(o, p and p.rpartition(".")[2], c, m) for o, p, c, m in rows]
