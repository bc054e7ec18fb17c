"""From what people hold (runs and judgments, files, frames, scores) to judged lists. No formula of a metric lives here."""
