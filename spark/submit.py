"""``mocketmq report`` for ``spark-submit``, with packages that are installed or given by ``--py-files``."""

from mocketmq_report.command import report

if __name__ == "__main__":
    report(prog_name="mocketmq report")
