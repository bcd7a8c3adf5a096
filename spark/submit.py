"""What ``spark-submit`` runs: ``mocketmq report``, with the packages given by ``--py-files`` or installed."""

from mocketmq_report.command import report

if __name__ == "__main__":
    report(prog_name="mocketmq report")
